// class: compile ok
// expand: Z %00 3
return 1@Z@
