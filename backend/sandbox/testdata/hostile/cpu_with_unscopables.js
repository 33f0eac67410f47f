// class: thrown cpu ok compile
return new Function('o', 'with (o) { for (;;) x }')({})
