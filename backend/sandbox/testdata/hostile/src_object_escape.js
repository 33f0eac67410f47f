// class: compile
return 1 } + {
