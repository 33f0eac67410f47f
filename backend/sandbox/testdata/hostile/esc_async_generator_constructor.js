// class: thrown
return (async function* () {}).constructor('yield 1')
