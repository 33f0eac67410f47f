// class: ok
// input: "\u0000\u2028\u2029\ud800 */ </script>"
return params
