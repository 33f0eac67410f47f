// class: compile
return 1 })(); (async () => {
