/** What somebody has had before their eyes: a yes is offered only to what was unfolded and scrolled into view. */

const SETTLING = 300; // ms that something must have been on the screen before an answer to it counts

/** Watches the parts of one request. `onChange` is called whenever less is left to see. */
export class Sight {
  #unseen = new Set();
  #folds = new Set();
  #watcher;
  #since = performance.now();

  constructor(onChange) {
    this.onChange = onChange;
    this.#watcher = new IntersectionObserver((entries) => this.#look(entries));
  }

  /** Add an element that has to be seen, and return it. */
  part(element) {
    this.#unseen.add(element);
    this.#watcher.observe(element);
    return element;
  }

  /** Add something folded: `open` shows it and returns its first part. */
  folded(open) {
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

  #look(entries) {
    let changed = false;
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting || document.hidden) continue;
      this.#unseen.delete(target);
      this.#watcher.unobserve(target);
      changed = true;
    }
    if (!changed) return;
    if (this.isComplete) this.#since = performance.now();
    this.onChange();
  }

  get isComplete() {
    return this.#unseen.size + this.#folds.size === 0;
  }

  /** Whether it has been here long enough that whoever answers means this. */
  get isSettled() {
    return performance.now() - this.#since >= SETTLING;
  }

  /** Say what is left to see, for people. */
  get left() {
    const parts = [
      this.#folds.size && `${this.#folds.size} folded`,
      this.#unseen.size && `${this.#unseen.size} out of sight`,
    ].filter(Boolean);
    return parts.join(", ");
  }

  /** Bring the next thing that was not seen into view. */
  showNext() {
    const open = [...this.#unseen, ...[...this.#folds].map((fold) => fold.element)].filter((each) => each?.isConnected);
    const order = (a, b) => (a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1);
    const next = open.sort(order)[0];
    const fold = [...this.#folds].find((each) => each.element === next);
    const target = fold ? fold.open() : next;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    target?.scrollIntoView({ block: fold || tall(target) ? "start" : "nearest", behavior: calm ? "auto" : "smooth" });
  }

  /** Look at nothing any more. */
  stop() {
    this.#watcher.disconnect();
  }
}

function tall(element) {
  return element.getBoundingClientRect().height > innerHeight / 2;
}
