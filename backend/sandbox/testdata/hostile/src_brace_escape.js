// class: compile
return 1 } } } ; for (;;) {}
