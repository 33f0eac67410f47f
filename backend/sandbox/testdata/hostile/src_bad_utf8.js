// class: compile ok
// expand: Z %ff%c0%80 3
return '@Z@'
