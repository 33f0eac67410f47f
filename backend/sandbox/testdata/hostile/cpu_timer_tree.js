// class: cpu thrown host_denied
await new Promise(() => { const f = () => { setTimeout(f, 0); setTimeout(f, 0) }; f() })
