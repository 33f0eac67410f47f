// class: ok thrown cpu
setTimeout(() => 1, { valueOf() { setTimeout(() => 1, this); return 1 } }); return 1
