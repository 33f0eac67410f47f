// class: cpu
await new Promise(() => setTimeout(() => { for (;;) {} }, 0))
