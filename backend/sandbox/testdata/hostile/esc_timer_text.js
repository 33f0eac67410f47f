// class: thrown
setTimeout('globalThis.x = 1', 0)
