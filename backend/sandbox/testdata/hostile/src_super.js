// class: compile
return super.x
