// class: ok output
return helix
