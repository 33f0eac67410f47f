// class: cpu memory
for (;;) { const a = {}, b = { a }; a.b = b; a.f = () => b }
