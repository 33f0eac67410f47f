// class: ok compile thrown
return typeof new.target
