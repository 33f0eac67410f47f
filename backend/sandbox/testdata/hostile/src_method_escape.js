// class: compile
return 1 }, function () {
