// class: cpu memory
const a = []; for (let i = 0; i < 1e5; i++) a.push({ i }); for (;;) structuredClone(a)
