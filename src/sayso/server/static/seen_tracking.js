/** Viewport tracking: an approval is enabled only after all content was unfolded and scrolled into view. */

const SEEN_RATIO = 0.5; // visible share of a line that counts as seen
const SETTLE_MS = 300; // how long content must be displayed before an answer to it counts

/** Tracks which parts of a request were seen; `onChange` is called when one was, and when an answer counts. */
export class SeenTracker {
  #unseen = new Set();
  #folds = new Set();
  #observer;
  #since;

  constructor(onChange) {
    this.onChange = onChange;
    this.#restartSettling();
    this.#observer = new IntersectionObserver((entries) => this.#onIntersect(entries), {
      threshold: [0, 0.25, SEEN_RATIO, 0.75, 1],
    });
  }

  /** Track an element, from its first line to its last, and return it. */
  track(element) {
    const ends = element.firstElementChild ? [element.firstElementChild, element.lastElementChild] : [element];
    for (const each of ends) {
      this.#unseen.add(each);
      this.#observer.observe(each);
    }
    return element;
  }

  /** Track a folded part: `open` unfolds it and returns its first element. */
  trackFold(open) {
    const fold = {
      element: null,
      open: () => {
        if (!this.#folds.delete(fold)) return null;
        const first = open();
        this.onChange();
        return first;
      },
    };
    this.#folds.add(fold);
    return fold;
  }

  #onIntersect(entries) {
    let changed = false;
    for (const { target, intersectionRatio, intersectionRect } of entries) {
      const fillsScreen = intersectionRect.height >= innerHeight * SEEN_RATIO; // for what is higher than the screen
      if (document.hidden || (intersectionRatio < SEEN_RATIO && !fillsScreen)) continue;
      this.#unseen.delete(target);
      this.#observer.unobserve(target);
      changed = true;
    }
    if (!changed) return;
    if (this.isComplete) this.#restartSettling();
    this.onChange();
  }

  #restartSettling() {
    this.#since = performance.now();
    setTimeout(() => this.onChange(), SETTLE_MS + 1);
  }

  get isComplete() {
    return this.#unseen.size + this.#folds.size === 0;
  }

  /** Whether the content was displayed long enough for an answer to be meant for it. */
  get isSettled() {
    return performance.now() - this.#since >= SETTLE_MS;
  }

  /** Return what is left to see, in words. */
  get remaining() {
    const parts = [this.#folds.size && `${this.#folds.size} folded`, this.#unseen.size && "more to scroll to"].filter(
      Boolean,
    );
    return parts.join(" and ");
  }

  /** Scroll to the next unseen part; a folded one is unfolded. */
  showNext() {
    const open = [...this.#unseen, ...[...this.#folds].map((fold) => fold.element)].filter((each) => each?.isConnected);
    const order = (a, b) => (a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1);
    const next = open.sort(order)[0];
    const fold = [...this.#folds].find((each) => each.element === next);
    const target = fold ? fold.open() : next;
    if (!target) return;
    const isMotionReduced = matchMedia("(prefers-reduced-motion: reduce)").matches;
    target.scrollIntoView({ block: "start", behavior: isMotionReduced ? "auto" : "smooth" });
  }

  /** Stop tracking. */
  stop() {
    this.#observer.disconnect();
  }
}
