// class: ok output
return { ['\ud800']: '\udc00', ['\0']: 1 }
