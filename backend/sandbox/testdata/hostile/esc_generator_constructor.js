// class: thrown
return (function* () {}).constructor('yield 1')().next()
