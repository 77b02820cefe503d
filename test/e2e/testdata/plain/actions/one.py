def run(params):
    return 1
