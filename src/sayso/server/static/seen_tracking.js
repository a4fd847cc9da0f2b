/** Viewport tracking: an approval is enabled only after all content was unfolded and scrolled into view. */

const SEEN_RATIO = 0.5; // of a line
const SETTLE_MS = 300; // ms that something must have been on the screen before an answer to it counts

/** Watches the parts of one request. `onChange` is called whenever less is left to see, and when an answer counts. */
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

  /** Add an element that has to be seen, from its first line to its last, and return it. */
  track(element) {
    const ends = element.firstElementChild ? [element.firstElementChild, element.lastElementChild] : [element];
    for (const each of ends) {
      this.#unseen.add(each);
      this.#observer.observe(each);
    }
    return element;
  }

  /** Add something folded: `open` shows it and returns its first part. */
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
      const fillsScreen = intersectionRect.height >= innerHeight * SEEN_RATIO; // as much of it as there is room for
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

  /** Whether it has been here long enough that whoever answers means this. */
  get isSettled() {
    return performance.now() - this.#since >= SETTLE_MS;
  }

  /** Say what is left to see, for people. */
  get remaining() {
    const parts = [this.#folds.size && `${this.#folds.size} folded`, this.#unseen.size && "more to scroll to"].filter(
      Boolean,
    );
    return parts.join(" and ");
  }

  /** Bring the next thing that was not seen into view. */
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

  /** Look at nothing any more. */
  stop() {
    this.#observer.disconnect();
  }
}
