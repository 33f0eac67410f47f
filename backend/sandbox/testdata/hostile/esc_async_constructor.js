// class: thrown
return (async () => {}).constructor('return 1')()
