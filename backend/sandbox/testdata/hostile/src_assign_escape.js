// class: compile
return 1 } [1] = {
