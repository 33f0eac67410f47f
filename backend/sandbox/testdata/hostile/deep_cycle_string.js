// class: thrown ok
const a = [];
a[0] = a;
return String(a)
