/**
 * Creates state that outlives the component in which it is first needed. Derived state belongs to the effect
 * that is active when it is created, and becomes stale with it; here it belongs to the page.
 */
export function lasting<T>(make: () => T): T {
  let made!: T;
  $effect.root(() => {
    made = make();
  });
  return made;
}
