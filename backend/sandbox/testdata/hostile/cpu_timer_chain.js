// class: cpu timeout
// wall: 600ms
await new Promise(() => { const f = () => setTimeout(f, 0); f() })
