// class: output memory
return 'x'.repeat(100e6)
