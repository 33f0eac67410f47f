// class: ok compile
/// <reference path='/etc/passwd' />
//# sourceMappingURL=file:///etc/passwd
return 1
