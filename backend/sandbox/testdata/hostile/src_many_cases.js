// class: ok compile thrown memory
// expand: X case~0:; 60000
switch (params) { @X@ } return 1
