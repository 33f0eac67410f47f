// class: compile ok thrown
// expand: Z \u0000 3
return 'a@Z@b'.length
