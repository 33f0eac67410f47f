// class: ok memory cpu thrown
for (let k = 0; k < 3; k++) { let f = () => 1; for (let i = 0; i < 1e5; i++) { const g = f; f = () => g } f = null } return 1
