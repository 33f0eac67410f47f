// class: ok thrown compile
return typeof arguments === 'undefined' ? 0 : [...arguments].map((x) => typeof x)
