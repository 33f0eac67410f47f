// class: thrown
function* g() { it.next() } const it = g(); it.next()
