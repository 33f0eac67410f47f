// class: memory thrown cpu
return Math.max.apply(null, { length: 2 ** 32 - 1 })
