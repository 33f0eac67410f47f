// class: ok
return typeof globalThis['proc' + 'ess']
