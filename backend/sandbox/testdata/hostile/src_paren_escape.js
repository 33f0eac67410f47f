// class: compile
// waits: H2
return 1 })(); (async () => {
