is_capture_mode = False


def get_is_capture_mode():
    return is_capture_mode
