// class: ok
return typeof WebAssembly
