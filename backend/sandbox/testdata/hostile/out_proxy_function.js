// class: output
return new Proxy(() => 1, {})
