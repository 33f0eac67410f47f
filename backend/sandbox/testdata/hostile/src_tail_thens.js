// class: compile thrown ok memory cpu
// expand: X .then() 150000
await Promise.resolve()@X@
