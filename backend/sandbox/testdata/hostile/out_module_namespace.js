// class: ok output thrown
return globalThis
