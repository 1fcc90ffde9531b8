"""Known bugs of OpenVINO's CPU plugin: what shows them, and what is said of them."""
