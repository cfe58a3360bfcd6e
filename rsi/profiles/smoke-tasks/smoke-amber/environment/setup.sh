#!/bin/bash
set -e
cd /app
echo amber > amber.txt
