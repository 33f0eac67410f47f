// class: ok compile thrown
<!-- x
return 1
--> y
