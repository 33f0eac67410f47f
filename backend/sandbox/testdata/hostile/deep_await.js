// class: thrown ok memory cpu
const f = async (n) => n ? await f(n - 1) : 1; return await f(1e5)
