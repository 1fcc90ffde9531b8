// What the fake NVRTC opens when it compiles. It need only be there.
extern "C" __attribute__((visibility("default"))) const char* fake_nvrtc_builtins() { return "built-in functions"; }
