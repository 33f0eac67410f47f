// class: compile ok
return 1 /*
