"""`python -m judge_service` does what the command `judge-service` does."""

from judge_service.cli.main import main

if __name__ == "__main__":
    main()
