// class: compile
import x from 'fs'
return x
