// class: ok memory cpu thrown
for (let k = 0; k < 3; k++) { let o = {}; for (let i = 0; i < 2e5; i++) o = { o }; o = null } return 1
