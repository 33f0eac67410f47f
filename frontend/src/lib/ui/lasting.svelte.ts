/**
 * Makes what outlives the component in which it is first needed. What is derived belongs to
 * whatever is at work while it is made, and goes stale with it; here it belongs to the page.
 */
export function lasting<T>(make: () => T): T {
  let made!: T;
  $effect.root(() => {
    made = make();
  });
  return made;
}
