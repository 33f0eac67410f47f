// class: ok compile
#!/bin/sh
return 1
