import { createSubscriber } from "svelte/reactivity";

function ticking(ms: number): () => number {
  const subscribe = createSubscriber((update) => {
    const t = setInterval(update, ms);
    return () => clearInterval(t);
  });
  return () => {
    subscribe();
    return Date.now();
  };
}

/** The current time, updated every second wherever it is shown. For countdowns and running work. */
export const second = ticking(1000);
/** The current time, updated every 20 seconds. For "4 min ago". */
export const minute = ticking(20_000);
