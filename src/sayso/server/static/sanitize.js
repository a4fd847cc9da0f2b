/** Sanitiser for text of agents: invisible, control and look-alike characters are shown as their codes.
 *
 * The rules are those of `sayso/channels/display/sanitize.py`; a test compares the two for every character.
 */

const MOST_BLANKS = 40; // in a row; more would push the rest out of sight
const MOST_MARKS = 4; // accents on one letter; more would overlap other lines
const PLAIN = /^[ -~]*$/;
const BLANKS = new RegExp(` {${MOST_BLANKS + 1},}`, "gu");
const WORD = /[\p{L}\p{N}_]+/gu;
const ASCII = /^[\0-\x7f]*$/;
const LETTER = /\p{L}/u;
const MARK = /[\p{M}\u1160-\u11ff\ud7b0-\ud7fb]/u; // and Hangul vowels and finals, which combine with the letter before
const CONTROL = /[\0-\x1f\x7f-\x9f\p{Cs}]/u;
const HIDDEN = /[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/u;
const UNSEEN = /(?![ -~])[\p{Cf}\p{Zl}\p{Zp}\p{Zs}\p{Co}\p{Cn}]/u;
// Latin by Unicode script, but not by character name: signs and superscript letters.
const LATIN = /\p{Script=Latin}/u;
const NOT_CALLED_LATIN = new RegExp(
  "[\\u00aa\\u00ba\\u02b0-\\u02b8\\u02e0-\\u02e4\\u1d2c-\\u1d5c\\u1d5d-\\u1d65\\u1d78\\u1d9b-\\u1dbe\\u212a\\u212b\\u2132" +
    "\\u214e\\u2183\\ua770\\ua7f2-\\ua7f4\\ua7f8\\ua7f9\\uab5c-\\uab5f\\uab69\\u{10780}-\\u{107ba}]",
  "u",
);
// Homoglyphs of Latin letters in other scripts; a word of nothing but these imitates a Latin word.
const TWINS = new Set("асеорхуіјѕԁһӏԛԝѵАВЕЅІЈКМНОРСТХУҮԚԜαγοενικρτυχωϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսհոցզքՕՍԼՏ");
// Rare letters that look like Latin ones: Cherokee, Lisu, small capitals, …
const MASK = new RegExp(
  "[\\u0262\\u026a\\u0274\\u0276\\u0280-\\u0281\\u028f\\u0299\\u029b-\\u029c\\u029f\\u03e2-\\u03ef\\u13a0-\\u13fd\\u1d00-\\u1d01" +
    "\\u1d03-\\u1d07\\u1d0a-\\u1d10\\u1d15\\u1d18-\\u1d1c\\u1d20-\\u1d23\\u2c7b\\u2c80-\\u2cfd\\ua4d0-\\ua4fd\\ua730-\\ua731" +
    "\\ua776\\ua7af\\ua7fa\\uab46\\uab70-\\uabbf\\u{102e1}-\\u{1032f}\\u{10400}-\\u{1044f}\\u{11fb0}\\u{1df02}\\u{1df04}\\u{1df10}]",
  "u",
);
// Double-width characters, which look like no Latin letter.
const WIDE = new RegExp(
  "[\\u1100-\\u115f\\u3005-\\ua48c\\ua960-\\ua97c\\uac00-\\ud7a3\\uf900-\\ufad9\\u{16fe0}-\\u{18d08}\\u{1aff0}-\\u{1b2fb}" +
    "\\u{20000}-\\u{2ebe0}\\u{2f800}-\\u{3134a}]",
  "u",
);
// Homoglyphs of the separators of a path, an address or a number.
const SIGNS = new Set("⁄∕⧸╱⟋∖⧵╲‐‑−∶꞉ː։׃∣ǀǃɡɑɩ");
// Combining marks that strike a letter through, or enclose it.
const COVER = new RegExp(
  "[\\p{Me}\\u0334-\\u0338\\u1cd4\\u1ce2-\\u1ce8\\u20d2-\\u20d3\\u20d8-\\u20da\\u20e5-\\u20e6\\u20ea-\\u20eb\\u{10a39}" +
    "\\u{16af0}-\\u{16af4}\\u{1bc9e}\\u{1d167}-\\u{1d169}]",
  "u",
);
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Return a text with every invisible or look-alike character replaced by its code. */
export function visible(text) {
  return sanitizedPieces(text)
    .map((each) => each.text)
    .join("");
}

/** Whether a text has right-to-left letters, next to which the displayed order differs from the stored one. */
export function hasRightToLeft(text) {
  return RIGHT_TO_LEFT.test(text);
}

/** Split a text into pieces `{text, odd, at}`, each with its offset; an odd piece is the code of a character. */
export function sanitizedPieces(text) {
  if (PLAIN.test(text)) return text ? splitLongBlanks({ text, odd: false, at: 0 }) : [];
  const found = [];
  const add = (piece, odd, at) => {
    const last = found.at(-1);
    if (last && !odd && !last.odd) last.text += piece;
    else found.push({ text: piece, odd, at });
  };
  for (const [piece, odd, at] of encodeOdd(text)) add(piece, odd, at);
  return found.flatMap(splitLongBlanks);
}

function* encodeOdd(text) {
  const lookalikes = ASCII.test(text) ? new Set() : findLookalikes(text);
  let marks = MOST_MARKS; // at the start, a mark would combine with what precedes the text
  let at = 0;
  for (const each of text) {
    marks = MARK.test(each) ? marks + 1 : 0;
    if (CONTROL.test(each) || HIDDEN.test(each) || UNSEEN.test(each)) yield [escapeCharacter(each), true, at];
    else if (lookalikes.has(at) || marks > MOST_MARKS || COVER.test(each) || isLookalikeSign(text, at, each))
      yield [`⟨U+${hex(each).toUpperCase().padStart(4, "0")}⟩`, true, at];
    else yield [each, false, at];
    at += each.length;
  }
}

function splitLongBlanks(piece) {
  if (piece.odd) return [piece];
  const found = [];
  let from = 0;
  for (const run of piece.text.matchAll(BLANKS)) {
    if (run.index > from) found.push({ text: piece.text.slice(from, run.index), odd: false, at: piece.at + from });
    const blanks = `⟨${run[0].length.toLocaleString("en-US")} blanks⟩`;
    found.push({ text: blanks, odd: true, at: piece.at + run.index });
    from = run.index + run[0].length;
  }
  if (from < piece.text.length) found.push({ text: piece.text.slice(from), odd: false, at: piece.at + from });
  return found;
}

function hex(each) {
  return each.codePointAt(0).toString(16);
}

function escapeCharacter(each) {
  const short = { "\n": "\\n", "\t": "\\t", "\r": "\\r" }[each];
  if (short) return short;
  const code = hex(each);
  if (code.length <= 2) return `\\x${code.padStart(2, "0")}`;
  return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
}

/** Whether a sign is a homoglyph, or a styled ASCII sign between ASCII characters. */
function isLookalikeSign(text, at, each) {
  if (SIGNS.has(each)) return true;
  const isStyled = isStyledAscii(each) && each.normalize("NFKC").length === 1;
  return isStyled && ASCII.test(text.slice(Math.max(at - 1, 0), at)) && ASCII.test(text.charAt(at + each.length));
}

/** Return the offsets of look-alike letters: styled ASCII, or of another script than their word. */
function findLookalikes(text) {
  const found = new Set();
  for (const word of text.matchAll(WORD)) {
    if (ASCII.test(word[0])) continue;
    const letters = [...word[0]];
    const hasLatin = letters.some((each) => /[A-Za-z]/.test(each));
    const isAllTwins = letters.every((each) => TWINS.has(each) || !LETTER.test(each));
    let at = word.index;
    for (const each of letters) {
      if (isStyledAscii(each) || MASK.test(each) || (isNonLatin(each) && (hasLatin || isAllTwins))) found.add(at);
      at += each.length;
    }
  }
  return found;
}

function isStyledAscii(each) {
  const plain = each.normalize("NFKC");
  return each > "\x7f" && plain !== each && ASCII.test(plain);
}

function isNonLatin(each) {
  return each > "\x7f" && LETTER.test(each) && !WIDE.test(each) && (!LATIN.test(each) || NOT_CALLED_LATIN.test(each));
}
