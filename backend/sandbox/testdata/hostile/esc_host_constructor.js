// class: thrown
return helix.fetch.constructor('return 1')()
